package elbnet

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// description begins the description of a load balancer's interface.
const description = "ELB "

// Description returns the description of the interfaces of a load balancer: its ID, or in the first generation its name.
func Description(balancer string) string { return description + balancer }

// Described returns the load balancer that an interface belongs to, as its description says.
func Described(requester, of string) (balancer string, ok bool) {
	balancer, ok = strings.CutPrefix(of, description)
	return balancer, ok && requester == Requester
}

// Imported returns the interfaces of another account's load balancers: their IDs by zone, by load balancer.
func Imported(r *recording.Recording) (map[string]map[string]string, error) {
	pages, err := recording.Pages[awsec2.DescribeNetworkInterfacesInput, awsec2.DescribeNetworkInterfacesOutput](r, "ec2", "DescribeNetworkInterfaces")
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, p := range pages {
		for _, e := range p.Output.NetworkInterfaces {
			balancer, ok := Described(aws.ToString(e.RequesterId), aws.ToString(e.Description))
			if !ok {
				continue
			}
			if out[balancer] == nil {
				out[balancer] = map[string]string{}
			}
			out[balancer][aws.ToString(e.AvailabilityZone)] = aws.ToString(e.NetworkInterfaceId)
		}
	}
	return out, nil
}
