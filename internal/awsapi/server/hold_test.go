package server

import "testing"

func TestWaits(t *testing.T) {
	const eksctl = "aws-sdk-go-v2/1.43.5 ua/2.1 os/linux lang/go#1.26 md/GOOS#linux api/eks#1.91.0 eksctl/0.230.0 m/E"
	for _, tt := range []struct {
		name, userAgent, operation string
		want                       bool
	}{
		{"a waiter", "aws-sdk-go-v2/1.43.5 m/B,E", "DescribeCluster", true},
		{"no waiter", "aws-sdk-go-v2/1.43.5 m/E", "DescribeCluster", false},
		{"eksctl's own waiter", eksctl, "DescribeUpdate", true},
		{"eksctl looks", eksctl, "DescribeCluster", false},
		{"nobody", "", "DescribeUpdate", false},
	} {
		if got := waits(tt.userAgent, tt.operation); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
