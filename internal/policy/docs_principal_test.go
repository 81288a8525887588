package policy_test

// denyBut denies everything to all except some, next to an allow for everyone.
func denyBut(principals string) string {
	return to(`"*"`) + `,{"Effect":"Deny","NotPrincipal":` + principals + `,"Action":"*","Resource":"*"}`
}

var principalSayings = []saying{
	// Principal.
	{page: principalPage, says: "an account may be named by its root's ARN", who: stranger, identity: allowAll, resource: to(`{"AWS":"arn:aws:iam::444455556666:root"}`), want: allowed},
	{page: principalPage, says: "an account may be named by its ID, which is the same", who: stranger, identity: allowAll, resource: to(`{"AWS":"444455556666"}`), want: allowed},
	{page: principalPage, says: "naming the account delegates to it, and does not mean its root user only", who: foreign, identity: allowAll, resource: to(`{"AWS":"arn:aws:iam::444455556666:root"}`), want: allowed},
	{page: principalPage, says: "naming the own account does not allow its users by itself", who: ann, resource: to(`{"AWS":"111122223333"}`), want: implicit},
	{page: principalPage, says: "several principals of a type: the permission is each one's", who: ann, resource: to(`{"AWS":["444455556666","arn:aws:iam::111122223333:user/ann"]}`), want: allowed},
	{page: principalPage, says: "a role is named by its ARN", who: session, resource: to(`{"AWS":"arn:aws:iam::111122223333:role/role"}`), want: allowed},
	{page: principalPage, says: "a role session is named by its own ARN", who: session, resource: to(`{"AWS":"arn:aws:sts::111122223333:assumed-role/role/s"}`), want: allowed},
	{page: principalPage, says: "a session principal is that session, not another of the role", who: session, resource: to(`{"AWS":"arn:aws:sts::111122223333:assumed-role/role/other"}`), want: implicit},
	{page: principalPage, says: "a wildcard does not mean all sessions", who: session, resource: to(`{"AWS":"arn:aws:sts::111122223333:assumed-role/role/*"}`), want: implicit},
	{page: principalPage, says: "a wildcard cannot match part of a name or ARN", who: ann, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/*"}`), want: implicit},
	{page: principalPage, says: "names are compared with case", who: ann, resource: to(`{"AWS":"arn:aws:iam::111122223333:user/Ann"}`), want: implicit},
	{page: principalPage, says: "a principal that was saved as its unique ID is found by it", who: ann, resource: to(`{"AWS":"AIDAANN"}`), want: allowed},
	{page: principalPage, says: "… and one made again under the same name has another ID", who: ann, resource: to(`{"AWS":"AIDAGONE"}`), want: implicit},
	{page: principalPage, says: "a role's unique ID stands for its sessions", who: session, resource: to(`{"AWS":"AROAROLE"}`), want: allowed},
	{page: principalPage, says: "a service is named by its service principal", who: service, resource: to(`{"Service":"eks.amazonaws.com"}`), want: allowed},
	{page: principalPage, says: "… and another service is another principal", who: service, resource: to(`{"Service":"ec2.amazonaws.com"}`), want: implicit},
	{page: principalPage, says: "an array of services names each", who: service, resource: to(`{"Service":["ec2.amazonaws.com","eks.amazonaws.com"]}`), want: allowed},
	{page: principalPage, says: "a wildcard grants to everyone, anonymous callers included", who: anonymous, resource: to(`"*"`), want: allowed},
	{page: principalPage, says: `"*" and {"AWS":"*"} are the same`, who: anonymous, resource: to(`{"AWS":"*"}`), want: allowed},
	{page: principalPage, says: "for users of the account a wildcard needs no other permission", who: ann, resource: to(`"*"`), want: allowed},
	{page: principalPage, says: "for principals of other accounts it needs their identity-based policies", who: stranger, resource: to(`"*"`), want: implicit},
	{page: principalPage, says: "boundaries do not limit a grant by wildcard with aws:PrincipalArn", who: session, boundary: `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, context: "aws:PrincipalArn=arn:aws:iam::111122223333:role/role", resource: `{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*","Condition":{"ArnEquals":{"aws:PrincipalArn":"arn:aws:iam::111122223333:role/role"}}}`, want: allowed},
	{page: principalPage, says: "… unless they deny explicitly", who: session, boundary: denyAll, context: "aws:PrincipalArn=arn:aws:iam::111122223333:role/role", resource: `{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*","Condition":{"ArnEquals":{"aws:PrincipalArn":"arn:aws:iam::111122223333:role/role"}}}`, want: explicit},
	{page: principalPage, says: "deny with a wildcard and aws:PrincipalArn instead of NotPrincipal", who: ann, identity: allowAll, context: "aws:PrincipalArn=arn:aws:iam::111122223333:user/ann", resource: `{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*","Condition":{"ArnNotEquals":{"aws:PrincipalArn":"arn:aws:iam::444455556666:user/user-name"}}}`, want: explicit},
	{page: principalPage, says: "anonymous callers have no permissions but what names everyone", who: anonymous, resource: to(`{"AWS":"111122223333"}`), want: implicit},

	// NotPrincipal.
	{page: notPrincipal, says: "NotPrincipal with Deny denies all but the named", who: ann, resource: denyBut(`{"AWS":["arn:aws:iam::444455556666:user/Bob","444455556666"]}`), want: explicit},
	{page: notPrincipal, says: "the named user and its account are not denied", who: stranger, identity: allowAll, resource: denyBut(`{"AWS":["arn:aws:iam::444455556666:user/Bob","arn:aws:iam::444455556666:root"]}`), want: allowed},
	{page: notPrincipal, says: "without the account's ARN the user's account may be denied", who: stranger, identity: allowAll, resource: denyBut(`{"AWS":"arn:aws:iam::444455556666:user/Bob"}`), want: explicit},
	{page: notPrincipal, says: "the account alone does not except its users", who: stranger, identity: allowAll, resource: denyBut(`{"AWS":"444455556666"}`), want: explicit},
	{page: notPrincipal, says: "session, role and account are all named", who: foreign, identity: allowAll, resource: denyBut(`{"AWS":["arn:aws:sts::444455556666:assumed-role/audit/app","arn:aws:iam::444455556666:role/audit","arn:aws:iam::444455556666:root"]}`), want: allowed},
	{page: notPrincipal, says: "without the role's ARN the role may be denied", who: foreign, identity: allowAll, resource: denyBut(`{"AWS":["arn:aws:sts::444455556666:assumed-role/audit/app","arn:aws:iam::444455556666:root"]}`), want: explicit},
	{page: notPrincipal, says: "a wildcard does not mean all sessions", who: foreign, identity: allowAll, resource: denyBut(`{"AWS":["arn:aws:sts::444455556666:assumed-role/audit/*","arn:aws:iam::444455556666:role/audit","arn:aws:iam::444455556666:root"]}`), want: explicit},
	{page: notPrincipal, says: "not being denied is not being allowed", who: stranger, identity: allowAll, resource: `{"Effect":"Deny","NotPrincipal":{"AWS":["arn:aws:iam::444455556666:user/Bob","444455556666"]},"Action":"*","Resource":"*"}`, want: implicit},
	{page: notPrincipal, says: "NotPrincipal with Allow grants to all but the named, anonymous callers included", who: anonymous, resource: `{"Effect":"Allow","NotPrincipal":{"AWS":"arn:aws:iam::444455556666:user/Bob"},"Action":"*","Resource":"*"}`, want: allowed},
	{page: notPrincipal, says: "… and not to the named", who: stranger, identity: allowAll, resource: `{"Effect":"Allow","NotPrincipal":{"AWS":"arn:aws:iam::444455556666:user/Bob"},"Action":"*","Resource":"*"}`, want: implicit},
}

var elementSayings = []saying{
	// Action, NotAction.
	{page: actionPage, says: "prefix and action name are case insensitive", who: ann, action: "iam:ListAccessKeys", identity: `{"Effect":"Allow","Action":"IAM:listaccesskeys","Resource":"*"}`, want: allowed},
	{page: actionPage, says: "a wildcard may be part of the action's name", who: ann, action: "iam:ListAccessKeys", identity: `{"Effect":"Allow","Action":"iam:*AccessKey*","Resource":"*"}`, want: allowed},
	{page: actionPage, says: "a question mark is any one character", who: ann, action: "sqs:GetX", identity: `{"Effect":"Allow","Action":"sqs:Get?","Resource":"*"}`, want: allowed},
	{page: actionPage, says: "… and not none", who: ann, action: "sqs:Get", identity: `{"Effect":"Allow","Action":"sqs:Get?","Resource":"*"}`, want: implicit},
	{page: actionPage, says: "a wildcard of one service does not reach another's actions", who: ann, action: "ec2:RunInstances", identity: `{"Effect":"Allow","Action":"s3:*","Resource":"*"}`, want: implicit},
	{page: notActionPage, says: "NotAction with Allow allows all actions that are not listed", who: ann, action: "ec2:RunInstances", identity: `{"Effect":"Allow","NotAction":"iam:*","Resource":"*"}`, want: allowed},
	{page: notActionPage, says: "… and not those that are", who: ann, action: "iam:CreateUser", identity: `{"Effect":"Allow","NotAction":"iam:*","Resource":"*"}`, want: implicit},
	{page: notActionPage, says: "NotAction with Deny denies what is not listed", who: ann, identity: allowAll + `,{"Effect":"Deny","NotAction":"iam:*","Resource":"*"}`, want: explicit},
	{page: notActionPage, says: "… and does not allow what is", who: ann, action: "iam:CreateUser", identity: `{"Effect":"Deny","NotAction":"iam:*","Resource":"*"}`, want: implicit},

	// Resource, NotResource.
	{page: resourcePage, says: "a wildcard expands over slashes within a segment", who: ann, on: "arn:aws:s3:::DOC/1/2/test/3/object.jpg", identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::DOC/*/test/*"}`, want: allowed},
	{page: resourcePage, says: "… also over empty parts", who: ann, on: "arn:aws:s3:::DOC//test/object.jpg", identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::DOC/*/test/*"}`, want: allowed},
	{page: resourcePage, says: "… and does not match without the delimiters that stand there", who: ann, on: "arn:aws:s3:::DOC/1-test/object.jpg", identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::DOC/*/test/*"}`, want: implicit},
	{page: resourcePage, says: "wildcards stay within the segments between colons", who: ann, on: "arn:aws:eks:us-east-1:111122223333:cluster/dev", identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:eks:*:cluster/dev"}`, want: implicit},
	{page: resourcePage, says: "an ARN with fewer than six fields is completed with wildcards", who: ann, on: "arn:aws:sqs:us-east-1:111122223333:q", identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:sqs"}`, want: allowed},
	{page: resourcePage, says: "several resources: any", who: ann, on: "arn:aws:dynamodb:us-east-2:111122223333:table/b", identity: `{"Effect":"Allow","Action":"*","Resource":["arn:aws:dynamodb:us-east-2:111122223333:table/a","arn:aws:dynamodb:us-east-2:111122223333:table/b"]}`, want: allowed},
	{page: notResource, says: "NotResource matches every resource except those listed", who: ann, on: "arn:aws:s3:::other/x", identity: allowAll + `,{"Effect":"Deny","Action":"s3:*","NotResource":["arn:aws:s3:::HRBucket/Payroll","arn:aws:s3:::HRBucket/Payroll/*"]}`, want: explicit},
	{page: notResource, says: "… which it leaves alone", who: ann, on: "arn:aws:s3:::HRBucket/Payroll/x", identity: allowAll + `,{"Effect":"Deny","Action":"s3:*","NotResource":["arn:aws:s3:::HRBucket/Payroll","arn:aws:s3:::HRBucket/Payroll/*"]}`, want: allowed},
}
