// Package filter matches resources with the filters of Describe calls. Which names
// an operation knows, and what a resource has for them, is its caller's.
package filter
