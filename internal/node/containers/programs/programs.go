// Package programs holds the programs of nodes that run containers: containerd and the kubelet. They are compiled into
// Drydock's binary and run as child modes of it, inside a machine (package machine/containers).
//
// Linux only; elsewhere there are no modes. Like the control plane's child it costs minutes to compile, so only
// cmd/drydock imports it, and no test binary links it.
package programs
