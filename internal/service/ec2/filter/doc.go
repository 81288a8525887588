// Package filter matches resources with the filters of Describe calls. The caller defines an
// operation's filter names and the values that a resource has for them.
package filter
