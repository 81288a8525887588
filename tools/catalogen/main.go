// Command catalogen derives the embedded instance-type catalogue from reference
// data: one JSON record per line, as DescribeInstanceTypes returns them.
//
//	go run ./tools/catalogen -in DIR/instance-types.jsonl -out internal/catalog/instancetypes
//
// The output is sorted by instance type, free of empty members and compressed
// reproducibly, so that the same input gives the same bytes.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	in := flag.String("in", "", "instance-types.jsonl to read")
	out := flag.String("out", "internal/catalog/instancetypes", "folder to write to")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "catalogen:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	f, err := os.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	packed, n, err := pack(f)
	if err != nil {
		return fmt.Errorf("reading %s: %w", in, err)
	}
	if err := os.WriteFile(filepath.Join(out, "instance-types.jsonl.gz"), packed, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "catalogen: %d instance types, %d bytes\n", n, len(packed))
	return nil
}

// pack returns the records of r, compacted, sorted and compressed.
func pack(r io.Reader) ([]byte, int, error) {
	lines := map[string][]byte{}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		dec := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		dec.UseNumber() // so that 218.75 stays 218.75
		var rec map[string]any
		if err := dec.Decode(&rec); err != nil {
			return nil, 0, err
		}
		name, _ := rec["InstanceType"].(string)
		if name == "" {
			return nil, 0, fmt.Errorf("a record without InstanceType: %.80s", sc.Text())
		}
		line, err := json.Marshal(rec) // sorts the members
		if err != nil {
			return nil, 0, err
		}
		lines[name] = line
	}
	if err := sc.Err(); err != nil {
		return nil, 0, err
	}
	names := make([]string, 0, len(lines))
	for n := range lines {
		names = append(names, n)
	}
	slices.SortFunc(names, strings.Compare)
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, 0, err
	}
	for _, n := range names {
		// NAME TAB RECORD: the name is found without decoding the record.
		fmt.Fprintf(zw, "%s\t%s\n", n, lines[n])
	}
	if err := zw.Close(); err != nil {
		return nil, 0, err
	}
	return buf.Bytes(), len(names), nil
}
