//go:build linux

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// pause holds a pod's namespaces, and reaps the processes that lost their parent if the pod shares its process namespace.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/build/pause/linux/pause.c
func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
