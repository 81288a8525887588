// Package fuzztest holds the AWS API server's fuzz targets. They are apart from its tests because fuzzing compiles
// every imported package with instrumentation, which takes gigabytes and many minutes for EC2's SDK package. It has
// no code of its own and nothing imports it.
package fuzztest
