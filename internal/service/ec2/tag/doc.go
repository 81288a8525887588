// Package tag reads and checks the tags of EC2's resources. It does not store
// them: the operations that change tags are the ec2 package's, which knows every
// kind of resource.
package tag
