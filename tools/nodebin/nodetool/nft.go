//go:build linux

package main

import (
	"fmt"
	"os"
	"syscall"
)

// nftDir has nft, with its libraries and their loader: it runs whatever the root file system is.
const nftDir = "/opt/drydock/bin/nft.d"

func nft() error {
	args := append([]string{"nft", "--library-path", nftDir, nftDir + "/nft"}, os.Args[1:]...)
	return fmt.Errorf("starting nft: %w", syscall.Exec(nftDir+"/ld.so", args, os.Environ()))
}
