//go:build !linux

package probe

import "runtime"

// Run probes this machine.
func Run() Report {
	return newReport([]Check{{
		Name: Kernel, Level: Missing, Found: "containers need Linux, and this is " + runtime.GOOS + ": run Drydock in a Linux virtual machine, such as one of Lima",
	}})
}
