# Shorthands; .ci/run is what must hold.
VERSION ?= devel

.PHONY: images chart-check e2e-cluster

# The images of this checkout, as an OCI layout: images.tar, with a bill of materials for each program beside it.
images:
	go run ./deploy/oci -o images.tar -sbom sbom -version $(VERSION) $(if $(wildcard cmd/injector/main.go),injector) sidecar fence killswitch

# The tests of the chart that need no server, with their programs built once into the cache.
chart-check:
	go run ./e2e/cluster build -only chart
	go test -count=1 ./deploy/helm/...

# Tests on a real API server (TIER=b) or a whole node (TIER=c), whose programs are built once into the cache.
TIER ?= c
e2e-cluster:
	go run ./e2e/cluster build -only $(TIER)
	TOOLGATE_CLUSTER=$(TIER) go test -count=1 -timeout 30m -v ./e2e/cluster
