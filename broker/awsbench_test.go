package broker

import (
	"testing"
	"time"
)

// BenchmarkResigned is what signing costs a call, over the header of a bearer token.
func BenchmarkResigned(b *testing.B) {
	p := newResigned(testKeys, time.Now(), "s3")
	bearer := newCredential(Ref{}, "Authorization", "Bearer ", issuedSecret)
	body := make([]byte, 1000)
	for name, cred := range map[string]*Credential{"signed": {put: p}, "bearer": bearer} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := cred.Apply(sdkRequest("https://bucket.s3.eu-central-1.amazonaws.com/key"), body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
