// Package ipam hands out addresses: those of subnets, with their prefixes, and the
// public ones, for IPv4 and IPv6. It does not know what they are used for.
package ipam
