package killswitch

// File is the source that reads a revocations file, such as a mounted ConfigMap.
type File struct {
	Path   string
	Name   string // the source's name in the Switch
	Switch *Switch
	Decode func(path string) ([]Revocation, error)
}

// Load reads the file and applies it. On an error, a missing file included, the last good set goes on ruling and the
// source counts as not heard. Reading the same content again counts as hearing it.
func (f *File) Load() error {
	set, err := f.Decode(f.Path)
	if err != nil {
		return err
	}
	_, err = f.Switch.Apply(f.Name, set)
	return err
}
