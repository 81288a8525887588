// Package fabric moves packets between the network interfaces of virtual private clouds. It is the counterpart of
// package reach: reach decides whether a packet would get through and explains why, and fabric carries real packets,
// with the same result.
//
// The daemon compiles a reach.Snapshot to a State, which is plain data. A child process that owns a user and a network
// namespace opens a Fabric, applies States to it, and attaches interfaces to the network namespaces of machines:
//
//	st := fabric.Compile(snapshot)     // in the daemon, on every platform
//	f, err := fabric.Open()            // in the child, Linux only
//	err = f.Apply(st)                  // again whenever the network changes
//	err = f.Attach("eni-…", netns)
//
// There is no bridge: each interface is one veth pair, and the fabric's namespace routes between them. All decisions
// are made by nftables when a packet enters the fabric. The chains mirror AWS's order: source/destination check, local
// services, the subnet's network ACL, its route table, the destination's network ACL, and the security groups of both
// ends. Addresses are looked up together with a VPC's number, so VPCs may have the same ranges. The fabric does not use
// the kernel's connection tracking, which would have one entry where AWS has one for each interface that a connection
// passes. It keeps AWS's kind in dynamic sets: by interface, direction and five-tuple.
//
// # Differences from AWS
//
//   - Fragments other than the first are dropped; the MTU is 9001.
//   - A transit gateway carries packets of any size, and ignores appliance mode: it prefers the sender's zone.
//   - What enters a VPC from a transit gateway is not routed to a transit gateway straight away, only by an instance.
//   - ICMP errors pass security groups only if a rule allows them.
//   - TTLs are decremented on each way through the fabric.
//   - Names are not part of it: EKS endpoints' public access ranges (reach.HostName.PublicFrom), load balancers and
//     DNS belong to whoever listens behind Fabric.ListenOutside and on managed interfaces.
//   - A fault that silences a VPC's DNS server or the metadata service is up to whoever serves them.
//   - An EC2 Instance Connect endpoint is an interface like others; it cannot preserve client addresses.
//   - An instance that is a NAT instance in reach must translate addresses itself.
package fabric
