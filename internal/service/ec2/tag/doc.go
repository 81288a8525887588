// Package tag reads and checks the tags of EC2's resources. It does not store them: package ec2
// changes tags, because it knows every kind of resource.
package tag
