// Package programs holds those programs of nodes that link Kubernetes or containerd: containerd, kubelet, kube-proxy and agents. They
// are names and child modes of one program, drydock-node (tools/nodebin/node), which runs inside a machine (package
// machine/containers).
//
// Linux only; elsewhere there are no modes. Like the control plane's child, it takes minutes to compile, so
// only tools/nodebin/node imports it, and no test binary links it.
package programs
