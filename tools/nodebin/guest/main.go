//go:build linux

// Guest is a small static program in machines that run containers. It provides what Amazon Linux has but the real
// machine's userland lacks, or has only in a form that does not work in a user namespace. Its name determines what it
// does:
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
