//go:build linux

// Guest is the small static program of machines that run containers for what Amazon Linux has and the userland of the real
// machine has not, or not in a form that works below a user namespace. Its name says what it is:
//
//	sudo  for users whom /etc/sudoers.d or the group wheel lets become others without a password
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
		fmt.Fprintf(os.Stderr, "%s: unknown name; this program is for Drydock's own use\n", name)
		os.Exit(1)
	}
}
