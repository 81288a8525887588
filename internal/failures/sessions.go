package failures

const connectionStatus = "aws ssm get-connection-status --target $INSTANCE"

func sessions() []Failure {
	return []Failure{
		{
			ID: "session-policy", Title: "The role lacks AmazonSSMManagedInstanceCore", Broken: "The instance's role has the policies of a node, which do not let the agent of Systems Manager register.",
			Own: OwnRole, Outcome: Session,
			UserData: nodeConfig, Launch: launch,
			Look: connectionStatus, Symptom: `"Status": "notconnected"`,
			Why: "session $INSTANCE", Step: "policies", Verdict: []string{"because of IAM, AccessDeniedException, ssm:UpdateInstanceInformation", "fix: aws iam attach-role-policy --role-name $ROLE"},
			Fix:     []string{"aws iam attach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"},
			Sources: []string{docSSM, "https://docs.aws.amazon.com/systems-manager/latest/userguide/setup-instance-permissions.html"},
		},
	}
}
