package shell

import (
	"strconv"
	"strings"
)

// number parses 10, 4K, 2M, 1G, 1MiB.
func number(s string) (int64, error) {
	digits := strings.TrimRight(s, "BbiKkMGT")
	n, err := strconv.ParseInt(strings.TrimPrefix(digits, "+"), 10, 64)
	if err != nil {
		return 0, err
	}
	shift := 0
	switch {
	case len(s) == len(digits):
	case strings.ContainsAny(s[len(digits):], "Kk"):
		shift = 10
	case strings.Contains(s, "M"):
		shift = 20
	case strings.Contains(s, "G"):
		shift = 30
	case strings.Contains(s, "T"):
		shift = 40
	}
	if n > 1<<(62-shift) {
		return 0, strconv.ErrRange
	}
	return n << shift, nil
}

// failed returns the status of a command whose output could not be written.
func failed(err error) int {
	if err != nil {
		return 1
	}
	return 0
}
