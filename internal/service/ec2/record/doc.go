// Package record holds the stored records that several parts of EC2 read and
// write, with their collections: those of the network, because what may be deleted
// depends on what else is there, and the instance's. A record that one package
// alone reads stays in that package. The methods of records render them for the SDK
// or look something up; operations and what they check are in the packages above.
package record
