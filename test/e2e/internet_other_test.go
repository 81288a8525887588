//go:build !linux

package e2e

import "github.com/rogpeppe/go-internal/testscript"

func internet(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("internet needs Linux") }
