//go:build tools

// Package tools keeps modules in go.mod that only tests read as data.
package tools

import (
	// models/protocol_tests is the corpus of internal/awsapi/wire's tests.
	_ "github.com/aws/aws-sdk-go/aws"
)
