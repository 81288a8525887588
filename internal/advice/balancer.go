package advice

import (
	"fmt"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
)

// balancer returns a sketch for what a load balancer lacks, because only its owner knows its targets and ports.
func balancer(region string, x *reach.Explanation) (Fix, bool) {
	at := " --region " + region
	port := uint16(0)
	if len(x.Ports) > 0 {
		port = x.Ports[0].From
	}
	switch x.Code {
	case reach.CodeClassicListeners:
		return Sketch("set PORT to the port that the instances listen at",
			fmt.Sprintf("aws elb create-load-balancer-listeners --load-balancer-name %s --listeners Protocol=TCP,LoadBalancerPort=%d,InstanceProtocol=TCP,InstancePort=$PORT%s", x.Component, port, at)), true
	case reach.CodeListeners:
		protocol := "TCP"
		if strings.Contains(x.Component, ":loadbalancer/app/") {
			protocol = "HTTP"
		}
		return Sketch("set TARGET_GROUP to one of those that aws elbv2 describe-target-groups --query 'TargetGroups[].TargetGroupArn'"+at+" lists",
			fmt.Sprintf("aws elbv2 create-listener --load-balancer-arn %s --protocol %s --port %d --default-actions Type=forward,TargetGroupArn=$TARGET_GROUP%s", x.Component, protocol, port, at)), true
	case reach.CodeNoTargets:
		return Sketch("set INSTANCE to one that aws ec2 describe-instances"+at+" lists",
			fmt.Sprintf("aws elbv2 register-targets --target-group-arn %s --targets Id=$INSTANCE%s", x.TargetGroup, at)), true
	case reach.CodeTargetHealth:
		if x.TargetGroup == "" && !strings.HasPrefix(x.Component, "arn:") {
			return Sketch("set INSTANCE to one that aws ec2 describe-instances"+at+" lists and that is healthy",
				fmt.Sprintf("aws elb register-instances-with-load-balancer --load-balancer-name %s --instances $INSTANCE%s", x.Component, at)), true
		}
	}
	return Fix{}, false
}
