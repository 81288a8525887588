// Package limit computes how many volume claims a node can have, as upstream's driver counts them. It is a separate package so
// that its test needs nothing else.
package limit

// Attachments is how many volumes an instance can have, its own included. Unless they are dedicated, each network interface after
// the first takes the place of one.
// https://docs.aws.amazon.com/ebs/latest/userguide/volume_limits.html
type Attachments struct {
	Volumes   int64 `json:"volumes"`
	Dedicated bool  `json:"dedicated"`
}

// Left returns how many claims an instance can have that has these network interfaces and, besides its root volume, these volumes
// since its launch or last start. reserved is the number of attachments that are not for claims, or negative for those volumes.
func (a Attachments) Left(interfaces, volumes, reserved int64) int64 {
	left := a.Volumes
	if !a.Dedicated {
		left -= max(interfaces-1, 0)
	}
	if reserved < 0 {
		reserved = volumes + 1
	}
	return max(left-reserved, 1)
}
