// Package ipam allocates addresses: IPv4 and IPv6, public ones and those of subnets, including
// prefixes. It does not know what they are used for.
package ipam
