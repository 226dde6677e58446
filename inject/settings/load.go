package settings

import "errors"

// Load reads and checks a settings file. The error is Problems, or that of reading.
func Load(path string) (*Settings, error) { return nil, errors.New("not yet") }

// Parse checks the text of a settings file that messages call name. The error is Problems.
func Parse(name string, data []byte) (*Settings, error) { return nil, errors.New("not yet") }
