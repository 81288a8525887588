//go:build linux

// Nodetool is a small static program on nodes that run containers. Its name determines what it does:
//
//	pause         the first process of a pod
//	drydock-runc  runc, with what a machine without cgroup controllers cannot do taken out of the container's description
//	drydock-cni   the CNI plugin: it gives a pod an address of the instance's network interfaces
//	sftp-server   what sshd runs for the subsystem sftp
//	nft           nft, with its own libraries
//	mount, umount what the kubelet needs of them, for machines whose userland is an image
//
// and in the pods of EKS's add-ons, the programs that are not upstream's: go-runner, grpc-health-probe, aws-vpc-cni-init,
// aws-vpc-cni and controller; and in those of `drydock demo`, web.
//
// It is separate from Drydock's own binary because it starts for every container; a program of that size would
// take longer to start than everything else takes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	var err error
	switch name := filepath.Base(os.Args[0]); name {
	case "pause":
		pause()
	case "drydock-runc":
		err = runc()
	case "drydock-cni":
		cni()
	case "sftp-server":
		err = sftpServer()
	case "nft":
		err = nft()
	case "mount":
		err = mount(os.Args[1:])
	case "umount":
		err = umount(os.Args[1:])
	case "go-runner":
		err = goRunner()
	case "grpc-health-probe":
		err = probe()
	case "aws-vpc-cni-init":
		fmt.Println("aws-vpc-cni-init of Drydock: the node has its CNI plugin, there is nothing to install")
	case "aws-vpc-cni":
		err = awsNode()
	case "controller": // its name in upstream's image
		err = policyAgent()
	case "web":
		err = web()
	default:
		err = fmt.Errorf("%s: unknown name; this program is for Drydock's own use", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
