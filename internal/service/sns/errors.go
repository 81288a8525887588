package sns

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// The texts are those that LocalStack's tests recorded from AWS (https://github.com/localstack/localstack,
// tests/aws/services/sns/test_sns.snapshot.json), or from memory.

func errParameter(format string, args ...any) error {
	return awserr.Newf("InvalidParameter", "Invalid parameter: "+format, args...)
}

func errNoTopic() error { return awserr.New("NotFound", "Topic does not exist") }

func errNoSubscription() error { return awserr.New("NotFound", "Subscription does not exist") }

func errNoResource() error { return awserr.New("ResourceNotFound", "Resource does not exist") }

// errARN is the error for a text that is no ARN, or an ARN of something else or in another region.
func errARN(parameter, id, name string) error {
	if n := strings.Count(name, ":") + 1; n < 6 {
		return errParameter("%s Reason: An ARN must have at least 6 elements, not %d", parameter, n)
	}
	return errParameter("%s", id)
}

func errTopicARN(name string) error {
	return errARN("TopicArn", "TopicArn", name)
}

func errSubscriptionARN(name string) error {
	return errARN("SubscriptionArn", "SubscriptionId", name)
}

func errTopicExists() error {
	return errParameter("Attributes Reason: Topic already exists with different attributes")
}

func errTopicTags() error {
	return errParameter("Tags Reason: Topic already exists with different tags")
}

func errSubscriptionExists() error {
	return errParameter("Attributes Reason: Subscription already exists with different attributes")
}

func errTopicName() error { return errParameter("Topic Name") }

func errAttribute() error { return errParameter("AttributeName") }

func errTagTwice(string) error { return errParameter("Duplicated keys are not allowed.") }

func errReservedTag(string) error {
	return errParameter("Tag keys that start with aws: are reserved")
}

func errManyTags() error {
	return awserr.New("TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded")
}

func errToken(string) error { return errParameter("NextToken") }

func errManyTopics() error {
	return awserr.New("TopicLimitExceeded", "Topic limit exceeded for this account")
}

func errManySubscriptions() error {
	return awserr.New("SubscriptionLimitExceeded", "Subscription limit exceeded for this topic")
}

func errManyFilters() error {
	return awserr.New("FilterPolicyLimitExceeded", "Filter policy limit exceeded for this topic")
}

func errFilter(err error) error { return errParameter("FilterPolicy: %s", err) }

func errMessage(what string) error { return errParameter("%s", what) }

func errBatch(code, text string) error { return awserr.New(code, text) }
