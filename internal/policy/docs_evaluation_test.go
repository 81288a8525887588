package policy_test

var evaluationSayings = []saying{
	// How AWS enforcement code logic evaluates requests.
	{page: evaluation, says: "all requests are implicitly denied by default", who: ann, want: implicit},
	{page: evaluation, says: "… except those of the root user, who has full access", who: root, want: allowed},
	{page: evaluation, says: "a request must be explicitly allowed", who: ann, identity: allowAll, want: allowed},
	{page: evaluation, says: "an explicit deny overrides an explicit allow", who: ann, identity: allowAll + "," + denyAll, want: explicit},
	{page: evaluation, says: "the enforcement code looks for a deny in the boundary", who: ann, identity: allowAll, boundary: allowAll + "," + denyAll, want: explicit},
	{page: evaluation, says: "… in the session policies", who: session, identity: allowAll, session: denyAll, want: explicit},
	{page: evaluation, says: "… and in the resource-based policies", who: ann, identity: allowAll, resource: `{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}`, want: explicit},
	{page: evaluation, says: "an explicit deny of a resource-based policy reaches the root user", who: root, resource: `{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}`, want: explicit},
	{page: evaluation, says: "for most resources an allow by either the identity-based or the resource-based policy is enough: identity", who: ann, identity: allowAll, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/bob"}`), want: allowed},
	{page: evaluation, says: "for most resources an allow by either the identity-based or the resource-based policy is enough: resource", who: ann, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/ann"}`), want: allowed},
	{page: evaluation, says: "role trust policies and KMS key policies are exceptions: they must allow", who: ann, identity: allowAll, required: true, want: implicit},
	{page: evaluation, says: "… a key policy that names the account lets identity-based policies allow", who: ann, identity: allowAll, resource: to(`{"AWS":"arn:aws:iam::111122223333:root"}`), required: true, want: allowed},
	{page: evaluation, says: "… and does not allow by itself", who: ann, resource: to(`{"AWS":"arn:aws:iam::111122223333:root"}`), required: true, want: implicit},
	{page: evaluation, says: "a role's trust policy must allow, whatever the identity-based policy allows", who: ann, identity: allowAll, action: "sts:AssumeRole", on: "arn:aws:iam::111122223333:role/r", trust: `{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}`, want: implicit},
	{page: evaluation, says: "a trust policy that names a user of the same account is enough", who: ann, action: "sts:AssumeRole", on: "arn:aws:iam::111122223333:role/r", trust: `{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:user/ann"},"Action":"sts:AssumeRole"}`, want: allowed},
	{page: evaluation, says: "a trust policy that names the account needs the identity-based policy too", who: ann, action: "sts:AssumeRole", on: "arn:aws:iam::111122223333:role/r", trust: `{"Effect":"Allow","Principal":{"AWS":"111122223333"},"Action":"sts:AssumeRole"}`, want: implicit},

	// Resource-based policies and implicit denies in other policy types (same account).
	{page: evaluation, says: "a grant to a role ARN is not limited by an implicit deny in an identity-based policy", who: session, resource: to(`{"AWS":"arn:aws:iam::111122223333:role/role"}`), want: allowed},
	{page: evaluation, says: "a grant to a role ARN is limited by an implicit deny in a permissions boundary", who: session, boundary: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:iam::111122223333:role/role"}`), want: implicit},
	{page: evaluation, says: "a grant to a role ARN is limited by an implicit deny in a session policy", who: session, session: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:iam::111122223333:role/role"}`), want: implicit},
	{page: evaluation, says: "a grant to a role session is not limited by an implicit deny in a boundary or session policy", who: session, boundary: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, session: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:sts::111122223333:assumed-role/role/s"}`), want: allowed},
	{page: evaluation, says: "a grant to an IAM user is not limited by an implicit deny in a permissions boundary", who: ann, boundary: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/ann"}`), want: allowed},
	{page: evaluation, says: "a grant to a federated user session is not limited by implicit denies", who: federated, session: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:sts::111122223333:federated-user/fed"}`), want: allowed},
	{page: evaluation, says: "a grant to the user who federated is limited by an implicit deny in a session policy", who: federated, session: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/ann"}`), want: implicit},
	{page: evaluation, says: "a direct grant does not overcome an explicit deny", who: ann, identity: denyAll, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/ann"}`), want: explicit},
	{page: evaluation, says: "the permissions boundary must allow what the identity-based policy allows", who: ann, identity: allowAll, boundary: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, want: implicit},
	{page: evaluation, says: "the session policy must allow what the role allows", who: session, identity: allowAll, session: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, want: implicit},
	{page: evaluation, says: "without an allow in an identity-based policy the final decision is deny", who: session, boundary: allowAll, session: allowAll, want: implicit},

	// Within a single account.
	{page: basics, says: "permissions of a boundary and identity-based policies are their intersection", who: ann, identity: allowAll, boundary: allowAll, want: allowed},
	{page: basics, says: "an explicit deny in the identity-based policy overrides the bucket policy's allow", who: ann, identity: `{"Sid":"DenyS3Logs","Effect":"Deny","Action":"s3:*","Resource":"arn:aws:s3:::*log*"}`, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/ann"}`), on: "arn:aws:s3:::carlos-logs/x", want: explicit},
	{page: basics, says: "if one of the two policies allows and the other does not, the request is still allowed", who: ann, identity: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/ann"}`), want: allowed},
	{page: boundaries, says: "a boundary does not provide permissions on its own", who: ann, boundary: allowAll, want: implicit},
	{page: boundaries, says: "session policies, a boundary and identity-based policies must all allow", who: session, identity: allowAll, boundary: allowAll, session: allowAll, want: allowed},
	{page: boundaries, says: "a resource-based policy that names a user of the account gets around the boundary's implicit deny", who: ann, boundary: `{"Effect":"Allow","Action":"iam:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/ann"}`), want: allowed},
	{page: implicitDeny, says: "an implicit denial occurs when there is neither an applicable deny nor an applicable allow", who: ann, identity: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, want: implicit},
	{page: implicitDeny, says: "an explicit denial occurs when an applicable policy contains a deny statement", who: ann, identity: `{"Effect":"Deny","Action":"s3:*","Resource":"*"}`, want: explicit},
	{page: implicitDeny, says: "the deny of a policy on other actions does not apply", who: ann, identity: allowAll + `,{"Effect":"Deny","Action":"ec2:*","Resource":"*"}`, want: allowed},

	// Across accounts.
	{page: crossAccount, says: "across accounts the identity-based policy alone does not allow", who: stranger, identity: allowAll, want: implicit},
	{page: crossAccount, says: "across accounts the resource-based policy alone does not allow, though it names the user", who: stranger, resource: to(`{"AWS":"arn:aws:iam::444455556666:user/Bob"}`), want: implicit},
	{page: crossAccount, says: "the request is allowed only if both accounts' evaluations allow it", who: stranger, identity: allowAll, resource: to(`{"AWS":"arn:aws:iam::444455556666:user/Bob"}`), want: allowed},
	{page: crossAccount, says: "the resource-based policy may name the whole account", who: stranger, identity: allowAll, resource: to(`{"AWS":"444455556666"}`), want: allowed},
	{page: crossAccount, says: "the trusted account's permissions boundary must allow, too", who: stranger, identity: allowAll, boundary: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:iam::444455556666:user/Bob"}`), want: implicit},
	{page: crossAccount, says: "… and its session policies", who: foreign, identity: allowAll, session: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, resource: to(`{"AWS":"arn:aws:sts::444455556666:assumed-role/audit/app"}`), want: implicit},
	{page: crossAccount, says: "an explicit deny on either side denies", who: stranger, identity: allowAll + `,{"Effect":"Deny","Action":"s3:*","Resource":"arn:aws:s3:::*log*"}`, resource: to(`{"AWS":"arn:aws:iam::444455556666:user/Bob"}`), on: "arn:aws:s3:::Production-logs/x", want: explicit},
	{page: crossAccount, says: "a role of another account is assumed only if it trusts the caller and the caller's policies allow", who: stranger, identity: allowAll, action: "sts:AssumeRole", on: "arn:aws:iam::111122223333:role/r", trust: `{"Effect":"Allow","Principal":{"AWS":"444455556666"},"Action":"sts:AssumeRole"}`, want: allowed},
	{page: crossAccount, says: "… not by the trust policy alone", who: stranger, action: "sts:AssumeRole", on: "arn:aws:iam::111122223333:role/r", trust: `{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::444455556666:user/Bob"},"Action":"sts:AssumeRole"}`, want: implicit},

	// VPC endpoint policies.
	{page: endpointPage, says: "an endpoint policy that does not allow denies", who: ann, identity: allowAll, endpoint: `{"Effect":"Allow","Principal":"*","Action":"ec2:*","Resource":"*"}`, want: implicit},
	{page: endpointPage, says: "an endpoint policy does not override or replace identity-based policies", who: ann, endpoint: to(`"*"`), want: implicit},
	{page: endpointPage, says: "the default endpoint policy allows everything that other policies allow", who: ann, identity: allowAll, endpoint: to(`"*"`), want: allowed},
	{page: endpointPage, says: "an endpoint policy also limits the root user", who: root, endpoint: `{"Effect":"Allow","Principal":"*","Action":"ec2:*","Resource":"*"}`, want: implicit},
}
