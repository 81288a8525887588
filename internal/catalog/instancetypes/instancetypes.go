// Package instancetypes is the catalogue of EC2 instance types: what DescribeInstanceTypes returns for each,
// embedded. It does not contain prices or availability (regions says where a type is offered). Any package may import
// it.
package instancetypes

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

//go:embed instance-types.jsonl.gz
var packed []byte

type record struct {
	name string
	info func() *ec2types.InstanceTypeInfo // decoded on first use
}

// catalogue unpacks the records, sorted by name, without decoding them: unpacking takes milliseconds, and decoding
// all of them many times as long.
var catalogue = sync.OnceValue(func() []record {
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(fmt.Sprintf("instancetypes: embedded data: %v", err)) // a broken build
	}
	data, err := io.ReadAll(zr)
	if err != nil {
		panic(fmt.Sprintf("instancetypes: embedded data: %v", err))
	}
	var out []record
	for line := range bytes.Lines(data) {
		name, raw, _ := bytes.Cut(line, []byte{'\t'})
		out = append(out, record{string(name), sync.OnceValue(func() *ec2types.InstanceTypeInfo {
			info := new(ec2types.InstanceTypeInfo)
			if err := json.Unmarshal(raw, info); err != nil {
				panic(fmt.Sprintf("instancetypes: embedded data of %s: %v", name, err))
			}
			return info
		})})
	}
	return out
})

// Names returns the names of all types, sorted.
func Names() []string {
	recs := catalogue()
	out := make([]string, len(recs))
	for i, r := range recs {
		out[i] = r.name
	}
	return out
}

// Valid reports whether there is a type with that name, without decoding it.
func Valid(name string) bool {
	_, ok := find(name)
	return ok
}

// Info returns EC2's description of a type, or false if there is no such type. The value is shared: treat it as
// read-only.
func Info(name string) (*ec2types.InstanceTypeInfo, bool) {
	r, ok := find(name)
	if !ok {
		return nil, false
	}
	return r.info(), true
}

// All returns every type, sorted by name. The values are shared: treat them as
// read-only. The first call decodes them all.
func All() []*ec2types.InstanceTypeInfo {
	recs := catalogue()
	out := make([]*ec2types.InstanceTypeInfo, len(recs))
	for i, r := range recs {
		out[i] = r.info()
	}
	return out
}

func find(name string) (record, bool) {
	recs := catalogue()
	i := sort.Search(len(recs), func(i int) bool { return recs[i].name >= name })
	if i == len(recs) || recs[i].name != name {
		return record{}, false
	}
	return recs[i], true
}

// A Type is the part of an instance type that most callers need.
type Type struct {
	Name          string
	VCPU          int
	MemoryMiB     int64
	ENIs          int // network interfaces of the default network card
	IPv4PerENI    int // IPv4 addresses per network interface, including the primary one
	Architectures []string
	GPUs          int
	BareMetal     bool
	Burstable     bool
}

// Lookup returns the type of that name, or false if there is none.
func Lookup(name string) (Type, bool) {
	info, ok := Info(name)
	if !ok {
		return Type{}, false
	}
	t := Type{
		Name:      name,
		BareMetal: aws.ToBool(info.BareMetal),
		Burstable: aws.ToBool(info.BurstablePerformanceSupported),
	}
	if v := info.VCpuInfo; v != nil {
		t.VCPU = int(aws.ToInt32(v.DefaultVCpus))
	}
	if m := info.MemoryInfo; m != nil {
		t.MemoryMiB = aws.ToInt64(m.SizeInMiB)
	}
	if n := info.NetworkInfo; n != nil {
		t.IPv4PerENI = int(aws.ToInt32(n.Ipv4AddressesPerInterface))
		t.ENIs = int(aws.ToInt32(n.MaximumNetworkInterfaces))
		def := int(aws.ToInt32(n.DefaultNetworkCardIndex))
		for _, c := range n.NetworkCards {
			if int(aws.ToInt32(c.NetworkCardIndex)) == def && c.MaximumNetworkInterfaces != nil {
				t.ENIs = int(*c.MaximumNetworkInterfaces)
			}
		}
	}
	if p := info.ProcessorInfo; p != nil {
		for _, a := range p.SupportedArchitectures {
			t.Architectures = append(t.Architectures, string(a))
		}
	}
	if g := info.GpuInfo; g != nil {
		for _, d := range g.Gpus {
			t.GPUs += int(aws.ToInt32(d.Count))
		}
	}
	return t, true
}

// Supports reports whether the type runs images of an architecture: x86_64, arm64.
func (t Type) Supports(arch string) bool { return slices.Contains(t.Architectures, arch) }

// MaxPods returns how many pods fit on a node of this type with the VPC CNI's default mode: the secondary addresses
// of all interfaces, and two host-network pods.
// https://github.com/awslabs/amazon-eks-ami/blob/main/templates/shared/runtime/eni-max-pods.txt
func (t Type) MaxPods() int { return t.ENIs*(t.IPv4PerENI-1) + 2 }
