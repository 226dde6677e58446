package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
)

// bom is a bill of materials, CycloneDX 1.6 (ECMA-424). It says what the linker recorded in the binary: modules, their versions and their
// checksums. Licences are not recorded there.
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	SerialNumber string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     bomMetadata  `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type bomMetadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"` // application or library
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []bomHash  `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// billOfMaterials is JSON. Its serial number is made of the binary, so that the same binary has the same bill.
func billOfMaterials(name, version string, binary []byte, info *debug.BuildInfo) ([]byte, error) {
	sum := sha256.Sum256(binary)
	b := bom{Format: "CycloneDX", SpecVersion: "1.6", SerialNumber: "urn:uuid:" + uuid(sum), Version: 1}
	purl := fmt.Sprintf("pkg:golang/%s@%s#cmd/%s", module, version, name)
	b.Metadata.Component = component{Type: "application", Ref: purl, Name: name, Version: version, PURL: purl,
		Hashes: []bomHash{{"SHA-256", hex.EncodeToString(sum[:])}}}
	for _, s := range info.Settings {
		b.Metadata.Component.Properties = append(b.Metadata.Component.Properties, property{"go:build:" + s.Key, s.Value})
	}
	std := strings.TrimPrefix(info.GoVersion, "go")
	b.Components = append(b.Components, library("stdlib", std, "pkg:golang/stdlib@"+std, ""))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, library(m.Path, m.Version, "pkg:golang/"+strings.ToLower(m.Path)+"@"+m.Version, m.Sum))
	}
	// The linker does not record who imports whom: everything is listed as the program's own.
	d := dependency{Ref: purl}
	for _, c := range b.Components {
		d.DependsOn = append(d.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{d}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// library is a module. Its sum is of go.sum, a hash over the names and hashes of its files, which is none of CycloneDX's algorithms.
func library(path, version, purl, sum string) component {
	c := component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}

// uuid is of version 8 (RFC 9562, section 5.8), which leaves the content to the application.
func uuid(sum [sha256.Size]byte) string {
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:32]}, "-")
}
