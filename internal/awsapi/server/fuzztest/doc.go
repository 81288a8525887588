// Package fuzztest holds the AWS API server's fuzz targets. They are separate from its tests because fuzzing
// compiles every imported package with instrumentation, which takes gigabytes and many minutes for EC2's SDK
// package. The package has no other code, and nothing imports it.
package fuzztest
