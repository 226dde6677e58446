//go:build linux

// Command bench measures Toolgate side by side with its peers as a forward proxy for CONNECT tunnels on loopback, and
// writes RESULTS.md. Every proxy, the upstream and the load generator are processes of their own, so that CPU time,
// memory and descriptors are charged to the one that used them. The peers take turns within each round.
//
// Limits: it reads /proc, so it runs on Linux only; it says nothing about real networks. It is a module of its own so
// that the peers' dependencies never reach the product. Nothing may import it.
package main
