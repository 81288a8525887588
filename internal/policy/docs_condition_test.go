package policy_test

var conditionSayings = []saying{
	// Condition: several operators, keys and values.
	{page: conditionPage, says: "context key names are not case-sensitive", who: ann, identity: when(`"IpAddress":{"AWS:SOURCEIP":"203.0.113.0/24"}`), context: "aws:SourceIp=203.0.113.9", want: allowed},
	{page: conditionPage, says: "values are compared as the operator does: StringEquals with case", who: ann, identity: when(`"StringEquals":{"aws:username":"john"}`), context: "aws:username=John", want: implicit},
	{page: conditionPage, says: "… StringEqualsIgnoreCase without", who: ann, identity: when(`"StringEqualsIgnoreCase":{"aws:username":"john"}`), context: "aws:username=John", want: allowed},
	{page: multiPage, says: "several values of a key are joined by a logical or", who: ann, identity: when(`"StringEquals":{"aws:PrincipalTag/department":["finance","hr","legal"]}`), context: "aws:PrincipalTag/department=hr", want: allowed},
	{page: multiPage, says: "several keys of an operator are joined by a logical and", who: ann, identity: when(`"StringEquals":{"aws:PrincipalTag/department":"hr","aws:PrincipalTag/role":"audit"}`), context: "aws:PrincipalTag/department=hr", want: implicit},
	{page: multiPage, says: "several operators are joined by a logical and", who: ann, identity: when(`"StringEquals":{"aws:PrincipalTag/department":"hr"},"Bool":{"aws:SecureTransport":"true"}`), context: "aws:PrincipalTag/department=hr;aws:SecureTransport=false", want: implicit},
	{page: multiPage, says: "… which holds if all do", who: ann, identity: when(`"StringEquals":{"aws:PrincipalTag/department":"hr"},"Bool":{"aws:SecureTransport":"true"}`), context: "aws:PrincipalTag/department=hr;aws:SecureTransport=true", want: allowed},
	{page: multiPage, says: "several values of a negated operator are joined by a logical nor", who: ann, identity: when(`"StringNotEquals":{"aws:PrincipalAccount":["111122223333","444455556666"]}`), context: "aws:PrincipalAccount=444455556666", want: implicit},
	{page: multiPage, says: "… which holds if none is equal", who: ann, identity: when(`"StringNotEquals":{"aws:PrincipalAccount":["111122223333","444455556666"]}`), context: "aws:PrincipalAccount=777788889999", want: allowed},

	// Operators: a key that is missing.
	{page: operatorPage, says: "if the key is not present the values do not match and the condition is false", who: ann, identity: when(`"StringEquals":{"aws:PrincipalTag/x":"1"}`), want: implicit},
	{page: operatorPage, says: "a negated operator is true if the key is not present: StringNotLike", who: ann, identity: when(`"StringNotLike":{"aws:PrincipalTag/x":"1*"}`), want: allowed},
	{page: operatorPage, says: "a negated operator is true if the key is not present: ArnNotLike", who: ann, identity: when(`"ArnNotLike":{"aws:SourceArn":"arn:aws:sns:*:*:t"}`), want: allowed},
	{page: operatorPage, says: "a negated operator is true if the key is not present: NotIpAddress", who: ann, identity: when(`"NotIpAddress":{"aws:SourceIp":"203.0.113.0/24"}`), want: allowed},

	// String operators.
	{page: operatorPage, says: "StringNotEquals is negated matching", who: ann, identity: when(`"StringNotEquals":{"k:k":"a"}`), context: "k:k=A", want: allowed},
	{page: operatorPage, says: "StringNotEqualsIgnoreCase is negated matching, ignoring case", who: ann, identity: when(`"StringNotEqualsIgnoreCase":{"k:k":"a"}`), context: "k:k=A", want: implicit},
	{page: operatorPage, says: "StringLike takes multi-character wildcards anywhere", who: ann, identity: when(`"StringLike":{"k:k":"a*c*e"}`), context: "k:k=abcde", want: allowed},
	{page: operatorPage, says: "… and single-character wildcards", who: ann, identity: when(`"StringLike":{"k:k":"a?c"}`), context: "k:k=aéc", want: allowed},
	{page: operatorPage, says: "… and is case-sensitive", who: ann, identity: when(`"StringLike":{"k:k":"a*"}`), context: "k:k=Abc", want: implicit},
	{page: operatorPage, says: "wildcards are needed for partial matches", who: ann, identity: when(`"StringLike":{"k:k":"home"}`), context: "k:k=home/x", want: implicit},
	{page: operatorPage, says: "StringEquals takes no wildcards", who: ann, identity: when(`"StringEquals":{"k:k":"home/*"}`), context: "k:k=home/x", want: implicit},
	{page: operatorPage, says: "StringNotLike is negated matching with wildcards", who: ann, identity: when(`"StringNotLike":{"k:k":"home/*"}`), context: "k:k=home/x", want: implicit},
	{page: operatorPage, says: "StringLike with an empty string matches an empty value", who: ann, identity: when(`"StringLike":{"s3:prefix":["","home/"]}`), context: "s3:prefix=", want: allowed},

	// Numeric operators.
	{page: operatorPage, says: "NumericLessThanEquals: up to 10", who: ann, identity: when(`"NumericLessThanEquals":{"s3:max-keys":"10"}`), context: "s3:max-keys=10", want: allowed},
	{page: operatorPage, says: "NumericLessThanEquals: 11 is more", who: ann, identity: when(`"NumericLessThanEquals":{"s3:max-keys":"10"}`), context: "s3:max-keys=11", want: implicit},
	{page: operatorPage, says: "NumericEquals compares decimals, not texts", who: ann, identity: when(`"NumericEquals":{"k:k":"1.50"}`), context: "k:k=1.5", want: allowed},
	{page: operatorPage, says: "NumericNotEquals is negated", who: ann, identity: when(`"NumericNotEquals":{"k:k":1}`), context: "k:k=1.0", want: implicit},
	{page: operatorPage, says: "NumericGreaterThan: 9 < 10 as numbers", who: ann, identity: when(`"NumericGreaterThan":{"k:k":"9"}`), context: "k:k=10", want: allowed},
	{page: operatorPage, says: "NumericGreaterThanEquals: equal is enough", who: ann, identity: when(`"NumericGreaterThanEquals":{"k:k":"9"}`), context: "k:k=9", want: allowed},
	{page: operatorPage, says: "NumericLessThan: equal is not less", who: ann, identity: when(`"NumericLessThan":{"k:k":"9"}`), context: "k:k=9", want: implicit},
	{page: operatorPage, says: "numeric operators take no policy variables", who: ann, identity: when(`"NumericEquals":{"k:k":"${k:limit}"}`), context: "k:k=1;k:limit=1", want: implicit},

	// Date operators.
	{page: operatorPage, says: "DateGreaterThan: tokens issued after the beginning of 2020", who: ann, identity: when(`"DateGreaterThan":{"aws:TokenIssueTime":"2020-01-01T00:00:01Z"}`), context: "aws:TokenIssueTime=2020-06-01T00:00:00Z", want: allowed},
	{page: operatorPage, says: "aws:TokenIssueTime is absent with long-term keys: denied", who: ann, identity: when(`"DateGreaterThan":{"aws:TokenIssueTime":"2020-01-01T00:00:01Z"}`), want: implicit},
	{page: operatorPage, says: "dates may be written as epoch seconds", who: ann, identity: when(`"DateLessThan":{"aws:EpochTime":"1593561599"}`), context: "aws:EpochTime=1577836800", want: allowed},
	{page: operatorPage, says: "… also against ISO dates", who: ann, identity: when(`"DateLessThan":{"aws:CurrentTime":1593561599}`), context: "aws:CurrentTime=2020-07-01T00:00:00Z", want: implicit},
	{page: operatorPage, says: "DateEquals compares moments, whatever their zone", who: ann, identity: when(`"DateEquals":{"aws:CurrentTime":"2020-01-01T02:00:00+02:00"}`), context: "aws:CurrentTime=2020-01-01T00:00:00Z", want: allowed},
	{page: operatorPage, says: "W3C's format may stop at the day", who: ann, identity: when(`"DateLessThanEquals":{"aws:CurrentTime":"2020-01-01"}`), context: "aws:CurrentTime=2020-01-01T00:00:00Z", want: allowed},
	{page: operatorPage, says: "DateNotEquals is negated", who: ann, identity: when(`"DateNotEquals":{"aws:CurrentTime":"2020-01-01T00:00:00Z"}`), context: "aws:CurrentTime=2020-01-01T00:00:00Z", want: implicit},
	{page: operatorPage, says: "DateGreaterThanEquals: at or after", who: ann, identity: when(`"DateGreaterThanEquals":{"aws:CurrentTime":"2020-01-01T00:00:00Z"}`), context: "aws:CurrentTime=2020-01-01T00:00:00.5Z", want: allowed},

	// Bool, BinaryEquals.
	{page: operatorPage, says: "Bool compares to true or false", who: ann, identity: allowAll + `,{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}`, context: "aws:SecureTransport=false", want: explicit},
	{page: operatorPage, says: "… and leaves the other alone", who: ann, identity: allowAll + `,{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}`, context: "aws:SecureTransport=true", want: allowed},
	{page: operatorPage, says: "a Bool condition on an absent key is false", who: ann, identity: allowAll + `,{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{"Bool":{"aws:MultiFactorAuthPresent":"false"}}}`, want: allowed},
	{page: operatorPage, says: "… BoolIfExists is true then", who: ann, identity: allowAll + `,{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{"BoolIfExists":{"aws:MultiFactorAuthPresent":"false"}}}`, want: explicit},
	{page: operatorPage, says: "BinaryEquals compares bytes with a base-64 value", who: ann, identity: when(`"BinaryEquals":{"k:k":"QmluYXJ5VmFsdWVJbkJhc2U2NA=="}`), context: "k:k=QmluYXJ5VmFsdWVJbkJhc2U2NA==", want: allowed},
	{page: operatorPage, says: "… with case", who: ann, identity: when(`"BinaryEquals":{"k:k":"QQ=="}`), context: "k:k=qQ==", want: implicit},

	// IP addresses.
	{page: operatorPage, says: "IpAddress: within the range", who: ann, identity: when(`"IpAddress":{"aws:SourceIp":"203.0.113.0/24"}`), context: "aws:SourceIp=203.0.113.255", want: allowed},
	{page: operatorPage, says: "IpAddress: outside of it", who: ann, identity: when(`"IpAddress":{"aws:SourceIp":"203.0.113.0/24"}`), context: "aws:SourceIp=203.0.114.0", want: implicit},
	{page: operatorPage, says: "an address without a prefix is that address", who: ann, identity: when(`"IpAddress":{"aws:SourceIp":"203.0.113.5"}`), context: "aws:SourceIp=203.0.113.6", want: implicit},
	{page: operatorPage, says: "IPv4 and IPv6 may be mixed", who: ann, identity: when(`"IpAddress":{"aws:SourceIp":["203.0.113.0/24","2001:DB8:1234:5678::/64"]}`), context: "aws:SourceIp=2001:db8:1234:5678::1", want: allowed},
	{page: operatorPage, says: "NotIpAddress: all but the range", who: ann, identity: when(`"NotIpAddress":{"aws:SourceIp":["203.0.113.0/24","198.51.100.0/24"]}`), context: "aws:SourceIp=198.51.100.7", want: implicit},
	{page: operatorPage, says: "aws:SourceIp is absent behind a VPC endpoint: implicitly denied", who: ann, identity: when(`"IpAddress":{"aws:SourceIp":"0.0.0.0/0"}`), want: implicit},

	// ARNs.
	{page: operatorPage, says: "StringLike matches over colons", who: ann, identity: when(`"StringLike":{"k:k":"arn:aws:someservice:*:111122223333:finance/*"}`), context: "k:k=arn:aws:someservice:us-east-2:999999999999:store/abc:111122223333:finance/document.txt", want: allowed},
	{page: operatorPage, says: "ArnLike matches each of the six components separately", who: ann, identity: when(`"ArnLike":{"k:k":"arn:aws:someservice:*:111122223333:finance/*"}`), context: "k:k=arn:aws:someservice:us-east-2:999999999999:store/abc:111122223333:finance/document.txt", want: implicit},
	{page: operatorPage, says: "ArnEquals and ArnLike behave identically", who: ann, identity: when(`"ArnEquals":{"aws:SourceArn":"arn:aws:sns:*:123456789012:T?PIC"}`), context: "aws:SourceArn=arn:aws:sns:eu-west-1:123456789012:TOPIC", want: allowed},
	{page: operatorPage, says: "… as do ArnNotEquals and ArnNotLike", who: ann, identity: when(`"ArnNotEquals":{"aws:SourceArn":"arn:aws:sns:*:123456789012:T?PIC"}`), context: "aws:SourceArn=arn:aws:sns:eu-west-1:123456789012:TOPIC", want: implicit},
	{page: operatorPage, says: "ARNs are compared with case", who: ann, identity: when(`"ArnLike":{"aws:SourceArn":"arn:aws:sns:*:*:topic"}`), context: "aws:SourceArn=arn:aws:sns:eu-west-1:123456789012:TOPIC", want: implicit},

	// IfExists, Null.
	{page: operatorPage, says: "IfExists: if the key is present it is processed as specified", who: ann, identity: when(`"StringLikeIfExists":{"ec2:InstanceType":["t1.*","t2.*"]}`), context: "ec2:InstanceType=c5.large", want: implicit},
	{page: operatorPage, says: "… if it is not, the condition element is true", who: ann, identity: when(`"StringLikeIfExists":{"ec2:InstanceType":["t1.*","t2.*"]}`), want: allowed},
	{page: operatorPage, says: "… other condition elements can still fail", who: ann, identity: when(`"StringLikeIfExists":{"ec2:InstanceType":"t1.*"},"StringEquals":{"k:k":"a"}`), want: implicit},
	{page: operatorPage, says: "a deny with StringNotEqualsIfExists still denies if the tag is missing", who: ann, identity: allowAll + `,{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"StringNotEqualsIfExists":{"aws:RequestTag/x":"1"}}}`, want: explicit},
	{page: operatorPage, says: "Null true: the key must not be there", who: ann, identity: when(`"Null":{"aws:TokenIssueTime":"true"}`), want: allowed},
	{page: operatorPage, says: "Null true: it is", who: ann, identity: when(`"Null":{"aws:TokenIssueTime":"true"}`), context: "aws:TokenIssueTime=2020-01-01T00:00:00Z", want: implicit},
	{page: operatorPage, says: "Null false: the key must exist", who: ann, identity: when(`"Null":{"aws:TokenIssueTime":"false"}`), want: implicit},
	{page: operatorPage, says: "Null false: it does", who: ann, identity: when(`"Null":{"aws:TokenIssueTime":"false"}`), context: "aws:TokenIssueTime=2020-01-01T00:00:00Z", want: allowed},
}

var setSayings = []saying{
	{page: setPage, says: "ForAllValues: every value of the request matches a value of the policy", who: ann, identity: when(`"ForAllValues:StringEquals":{"dynamodb:Attributes":["ID","Message","Tags"]}`), context: "dynamodb:Attributes=Message|Tags", want: allowed},
	{page: setPage, says: "ForAllValues: one that matches none fails it", who: ann, identity: when(`"ForAllValues:StringEquals":{"dynamodb:Attributes":["ID","Message","Tags"]}`), context: "dynamodb:Attributes=Message|UserName", want: implicit},
	{page: setPage, says: "ForAllValues: true if the request has no such key", who: ann, identity: when(`"ForAllValues:StringEquals":{"aws:TagKeys":["a"]}`), want: allowed},
	{page: setPage, says: "ForAllValues: true for a null data set, such as an empty string", who: ann, identity: when(`"ForAllValues:StringEquals":{"aws:TagKeys":["a"]}`), context: "aws:TagKeys=", want: allowed},
	{page: setPage, says: "ForAllValues with a Null condition requires at least one value", who: ann, identity: when(`"ForAllValues:StringEquals":{"aws:TagKeys":["a"]},"Null":{"aws:TagKeys":"false"}`), want: implicit},
	{page: setPage, says: "ForAnyValue: any value that matches is enough", who: ann, identity: allowAll + `,{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"ForAnyValue:StringEquals":{"dynamodb:Attributes":["ID","PostDateTime"]}}}`, context: "dynamodb:Attributes=UserName|Message|PostDateTime", want: explicit},
	{page: setPage, says: "ForAnyValue: none that matches", who: ann, identity: allowAll + `,{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"ForAnyValue:StringEquals":{"dynamodb:Attributes":["ID","PostDateTime"]}}}`, context: "dynamodb:Attributes=UserName", want: allowed},
	{page: setPage, says: "ForAnyValue: false without the key", who: ann, identity: when(`"ForAnyValue:StringEquals":{"aws:TagKeys":["a"]}`), want: implicit},
	{page: setPage, says: "ForAnyValue: false for a null data set", who: ann, identity: when(`"ForAnyValue:StringLike":{"aws:TagKeys":["*"]}`), context: "aws:TagKeys=", want: implicit},
	{page: setPage, says: "sets with wildcards use StringLike", who: ann, identity: when(`"ForAllValues:StringLike":{"aws:TagKeys":["team-*","Name"]}`), context: "aws:TagKeys=team-a|Name", want: allowed},
	{page: setPage, says: "ForAllValues:StringNotEquals: no value is one of the policy's", who: ann, identity: when(`"ForAllValues:StringNotEquals":{"aws:TagKeys":["a","b"]}`), context: "aws:TagKeys=c|b", want: implicit},
	{page: setPage, says: "ForAnyValue:StringNotEquals: some value is none of the policy's", who: ann, identity: when(`"ForAnyValue:StringNotEquals":{"aws:TagKeys":["a","b"]}`), context: "aws:TagKeys=c|b", want: allowed},
	{page: setPage, says: "ForAnyValue:StringNotEquals: false without the key, as any ForAnyValue", who: ann, identity: when(`"ForAnyValue:StringNotEquals":{"aws:TagKeys":["a"]}`), want: implicit},
	{page: setPage, says: "ForAllValues:StringNotEquals: true without the key", who: ann, identity: when(`"ForAllValues:StringNotEquals":{"aws:TagKeys":["a"]}`), want: allowed},
	{page: setPage, says: "set operators take IfExists too", who: ann, identity: when(`"ForAnyValue:StringEqualsIfExists":{"aws:TagKeys":["a"]}`), want: allowed},
}

var variableSayings = []saying{
	{page: variablePage, says: "a variable in Resource is replaced by the request's value", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::bucket/${aws:username}/*"}`, on: "arn:aws:s3:::bucket/ann/x", context: "aws:username=ann", want: allowed},
	{page: variablePage, says: "… and by no other's", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::bucket/${aws:username}/*"}`, on: "arn:aws:s3:::bucket/bob/x", context: "aws:username=ann", want: implicit},
	{page: variablePage, says: "key names in variables are case-insensitive", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::bucket/${AWS:UserName}/*"}`, on: "arn:aws:s3:::bucket/ann/x", context: "aws:username=ann", want: allowed},
	{page: variablePage, says: "without version 2012-10-17 a variable is literal text", version: "2008-10-17", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::bucket/${aws:username}/*"}`, on: "arn:aws:s3:::bucket/ann/x", context: "aws:username=ann", want: implicit},
	{page: versionPage, says: "… which matches itself", version: "2008-10-17", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::bucket/${aws:username}/*"}`, on: "arn:aws:s3:::bucket/${aws:username}/x", context: "aws:username=ann", want: allowed},
	{page: variablePage, says: "a variable may stand in string comparisons", who: ann, identity: when(`"StringLike":{"s3:prefix":"${aws:username}/*"}`), context: "s3:prefix=ann/x;aws:username=ann", want: allowed},
	{page: variablePage, says: "… and in ARN comparisons", who: ann, identity: when(`"ArnLike":{"aws:SourceArn":"arn:aws:sns:*:*:${aws:username}"}`), context: "aws:SourceArn=arn:aws:sns:us-east-1:1:ann;aws:username=ann", want: allowed},
	{page: variablePage, says: "… and not in dates", who: ann, identity: when(`"NumericLessThan":{"aws:EpochTime":"${k:end}"}`), context: "aws:EpochTime=1;k:end=2", want: implicit},
	{page: variablePage, says: "a tag is put in by its prefix and name", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::bucket/${aws:PrincipalTag/department}"}`, on: "arn:aws:s3:::bucket/hr", context: "aws:PrincipalTag/department=hr", want: allowed},
	{page: variablePage, says: "a resource with a variable without value matches no resource", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::bucket/${aws:username}*"}`, on: "arn:aws:s3:::bucket/x", want: implicit},
	{page: variablePage, says: "… so that NotResource matches every one", who: ann, identity: `{"Effect":"Allow","Action":"*","NotResource":"arn:aws:s3:::bucket/${aws:username}*"}`, on: "arn:aws:s3:::bucket/x", want: allowed},
	{page: variablePage, says: "StringEquals does not match a variable without value", who: ann, identity: when(`"StringEquals":{"s3:ExistingObjectTag/Team":"${aws:PrincipalTag/Team}"}`), context: "s3:ExistingObjectTag/Team=a", want: implicit},
	{page: variablePage, says: "inverted operators do", who: ann, identity: allowAll + `,{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"StringNotEquals":{"s3:ExistingObjectTag/Team":"${aws:PrincipalTag/Team}"}}}`, context: "s3:ExistingObjectTag/Team=a", want: explicit},
	{page: variablePage, says: "a multivalued key is not a variable", who: ann, identity: when(`"StringEquals":{"k:k":"${aws:TagKeys}"}`), context: "k:k=a;aws:TagKeys=a|b", want: implicit},
	{page: variablePage, says: "a default is used if the key has no value", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::bucket-${aws:PrincipalTag/team, 'company-wide'}"}`, on: "arn:aws:s3:::bucket-company-wide", want: allowed},
	{page: variablePage, says: "… and not if it has", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::bucket-${aws:PrincipalTag/team, 'company-wide'}"}`, on: "arn:aws:s3:::bucket-company-wide", context: "aws:PrincipalTag/team=yellow", want: implicit},
	{page: variablePage, says: "${*} is an asterisk, not a wildcard", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:ec2:*::snapshot/${*}"}`, on: "arn:aws:ec2:us-east-1::snapshot/snap-1", want: implicit},
	{page: variablePage, says: "… and matches one", who: ann, identity: `{"Effect":"Allow","Action":"*","Resource":"arn:aws:ec2:*::snapshot/${*}"}`, on: "arn:aws:ec2:us-east-1::snapshot/*", want: allowed},
	{page: variablePage, says: "${?} is a question mark", who: ann, identity: when(`"StringLike":{"k:k":"a${?}"}`), context: "k:k=ab", want: implicit},
	{page: variablePage, says: "${$} is a dollar sign", who: ann, identity: when(`"StringEquals":{"k:k":"${$}{aws:username}"}`), context: "k:k=${aws:username};aws:username=ann", want: allowed},
}
