//go:build linux

// Command bench measures Toolgate side by side with its peers on loopback, and writes RESULTS.md: as a forward proxy for CONNECT
// tunnels, and where it terminates TLS. Every proxy, the upstream and the load generator are processes of their own, so that CPU time,
// memory and descriptors are charged to the one that used them. The peers take turns within each round, and a ratio is taken within
// a round. An interrupted run reports what it has.
//
// Some peers are libraries that this program hosts, some are programs of Debian, which setup.sh installs; one that is absent is left out,
// aloud. With -soak it instead keeps a steady mixed load on one sidecar and writes SOAK.md. With -killswitch it measures how fast a
// revocation takes effect, at one sidecar and in fleets, and writes KILLSWITCH.md.
//
// Limits: it reads /proc and the kernel's CPU clocks, so it runs on Linux only; it says nothing about real networks. It is a module of
// its own so that the peers' dependencies never reach the product. Nothing may import it.
package main
