//go:build linux

// Guest is the small static program of machines that run containers for what Amazon Linux has and the userland of the real
// machine has not, or not in a form that works below a user namespace. Its name says what it is:
//
//	sudo  for users whom /etc/sudoers.d or the group wheel lets become others without a password
//
// Under all other names, it calls a program of the image that the daemon runs, such as systemctl.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "sudo":
		os.Exit(sudo(os.Args[1:]))
	default:
		status, err := call(name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		}
		os.Exit(status)
	}
}
