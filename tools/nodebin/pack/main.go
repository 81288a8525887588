// Pack compresses files with Zstandard: FILE becomes FILE.zst.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

func main() {
	for _, name := range os.Args[1:] {
		if err := pack(name); err != nil {
			fmt.Fprintln(os.Stderr, "pack:", err)
			os.Exit(1)
		}
	}
}

func pack(name string) error {
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(name + ".zst")
	if err != nil {
		return err
	}
	w, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(8<<20))
	if err != nil {
		return errors.Join(err, to.Close())
	}
	_, err = io.Copy(w, from)
	if err = errors.Join(err, w.Close(), to.Close()); err != nil {
		return errors.Join(err, os.Remove(name+".zst"))
	}
	return os.Remove(name)
}
