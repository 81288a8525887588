// Package fuzztest holds the AWS API server's fuzz targets, apart from its tests:
// fuzzing compiles every imported package with instrumentation, and for EC2's SDK
// package that takes gigabytes and many minutes. It has no code of its own and
// nothing imports it.
package fuzztest
