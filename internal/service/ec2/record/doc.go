// Package record defines the stored records that several parts of EC2 use, and their collections:
// those of the network, because dependents of a resource prevent its deletion, and instances.
// Records that only one package uses are in that package. Methods convert records to SDK types or
// look something up; the packages above have the operations and checks.
package record
