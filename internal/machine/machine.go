// Package machine is the seam between EC2 and whatever runs an instance as a computer.
// What Kubernetes adds to such a machine, a kubelet, is package node's.
package machine
