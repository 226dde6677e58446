// Package layout writes container images as an OCI image layout in a tar (OCI image specification 1.1), in which nothing depends on the
// machine: the same files give the same digests.
//
// Limits: everything is in memory; gzip only; it reads nothing back. deploy/oci and the tests in e2e/cluster may import it.
package layout
