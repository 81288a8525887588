package sqs

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func notFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// CreateQueue creates a queue. If a queue with the same name and attributes exists, it returns
// that.
func (s *Service) CreateQueue(ctx context.Context, in *awssqs.CreateQueueInput) (*awssqs.CreateQueueOutput, error) {
	sc, name := scopeOf(ctx), *in.QueueName
	fifo := in.Attributes["FifoQueue"] == "true"
	base := name
	if fifo {
		var ok bool
		if base, ok = strings.CutSuffix(name, ".fifo"); !ok {
			return nil, errQueueName(true)
		}
	}
	if len(name) > 80 || !nameForm.MatchString(base) {
		return nil, errQueueName(fifo)
	}
	rec := queueRecord{ID: ids.UUID(), Name: name, Created: s.now(), Modified: s.now()}
	if fifo {
		rec.Attributes = map[string]string{"FifoQueue": "true"}
	}
	if err := s.set(ctx, sc, &rec, in.Attributes, true); err != nil {
		return nil, err
	}
	var err error
	if rec.Tags, err = putTags(nil, in.Tags); err != nil {
		return nil, err
	}
	if s.justDeleted(sc.Key(name)) {
		return nil, errDeletedRecently()
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		old, err := queues.Get(tx, sc.Key(name))
		switch {
		case notFound(err):
			return queues.Create(tx, sc.Key(name), rec)
		case err != nil:
			return err
		}
		for _, attribute := range slices.Sorted(maps.Keys(in.Attributes)) {
			if in.Attributes[attribute] != "" && in.Attributes[attribute] != old.attribute(attribute) && in.Attributes[attribute] != old.Attributes[attribute] {
				return errQueueExists(attribute)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awssqs.CreateQueueOutput{QueueUrl: aws.String(sc.url(name))}, nil
}

// justDeleted reports whether a name cannot be reused yet.
func (s *Service) justDeleted(key store.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.deleted[key]
	return ok && s.now().Sub(at) < s.cfg.Pause
}

// GetQueueUrl returns the URL of the queue with a name.
func (s *Service) GetQueueUrl(ctx context.Context, in *awssqs.GetQueueUrlInput) (*awssqs.GetQueueUrlOutput, error) {
	sc := scopeOf(ctx)
	if in.QueueOwnerAWSAccountId != nil {
		sc.Account = *in.QueueOwnerAWSAccountId
	}
	if _, err := queues.Get(s.store, sc.Key(*in.QueueName)); err != nil {
		return nil, store.NotFoundAs(err, errNoQueue())
	}
	return &awssqs.GetQueueUrlOutput{QueueUrl: aws.String(sc.url(*in.QueueName))}, nil
}

func pages(question string) paging.Rules {
	return paging.Rules{
		Usual: 1000, Question: question, BadToken: errNextToken,
		Size: func(n int32) (int, error) {
			if n < 1 || n > 1000 {
				return 0, errRange(n, "MaxResults", 1, 1000)
			}
			return int(n), nil
		},
	}
}

// ListQueues lists the queues of the account and region. It returns a token for the next page only
// if the request sets a page size.
func (s *Service) ListQueues(ctx context.Context, in *awssqs.ListQueuesInput) (*awssqs.ListQueuesOutput, error) {
	sc, prefix := scopeOf(ctx), aws.ToString(in.QueueNamePrefix)
	urls, next, err := s.list(sc, in.MaxResults, in.NextToken, prefix, func(queueRecord) bool { return true })
	if in.MaxResults == nil && in.NextToken == nil {
		next = nil
	}
	return &awssqs.ListQueuesOutput{QueueUrls: urls, NextToken: next}, err
}

// ListDeadLetterSourceQueues lists the queues that have a queue as their dead-letter queue.
func (s *Service) ListDeadLetterSourceQueues(ctx context.Context, in *awssqs.ListDeadLetterSourceQueuesInput) (*awssqs.ListDeadLetterSourceQueuesOutput, error) {
	dead, sc, err := s.find(ctx, in.QueueUrl)
	if err != nil {
		return nil, err
	}
	target := sc.arn(dead.Name)
	urls, next, err := s.list(sc, in.MaxResults, in.NextToken, "", func(q queueRecord) bool {
		p := q.redrive()
		return p != nil && p.Target == target
	})
	if urls == nil {
		urls = []string{}
	}
	return &awssqs.ListDeadLetterSourceQueuesOutput{QueueUrls: urls, NextToken: next}, err
}

func (s *Service) list(sc scope, size *int32, token *string, prefix string, match func(queueRecord) bool) ([]string, *string, error) {
	page, err := pages(prefix).Start(size, token)
	if err != nil {
		return nil, nil, err
	}
	var out []string
	queues.Scan(s.store, sc.named(prefix), page.After, func(_ store.Key, q queueRecord) bool {
		if !match(q) {
			return true
		}
		if page.Full() {
			return false
		}
		out = append(out, sc.url(q.Name))
		page.Add(q.Name)
		return true
	})
	return out, page.Next(), nil
}

// named returns the scope of queues whose names begin with prefix.
func (sc scope) named(prefix string) store.Scope {
	all := sc.All()
	all.Prefix = prefix
	return all
}

// GetQueueAttributes returns attributes of a queue.
func (s *Service) GetQueueAttributes(ctx context.Context, in *awssqs.GetQueueAttributesInput) (*awssqs.GetQueueAttributesOutput, error) {
	rec, sc, err := s.find(ctx, in.QueueUrl)
	if err != nil || len(in.AttributeNames) == 0 {
		return &awssqs.GetQueueAttributesOutput{}, err
	}
	c, err := s.count(sc, &rec)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range in.AttributeNames {
		names = append(names, string(n))
	}
	attributes, err := rec.show(sc, names, c)
	if err != nil || len(attributes) == 0 {
		return &awssqs.GetQueueAttributesOutput{}, err
	}
	return &awssqs.GetQueueAttributesOutput{Attributes: attributes}, nil
}

// SetQueueAttributes changes attributes. An attribute set to an empty value gets its default back.
func (s *Service) SetQueueAttributes(ctx context.Context, in *awssqs.SetQueueAttributesInput) (*awssqs.SetQueueAttributesOutput, error) {
	err := s.change(ctx, in.QueueUrl, func(sc scope, q *queueRecord) error {
		q.Attributes = maps.Clone(q.Attributes)
		return s.set(ctx, sc, q, in.Attributes, false)
	})
	return &awssqs.SetQueueAttributesOutput{}, err
}

// change updates a queue's record.
func (s *Service) change(ctx context.Context, url *string, fn func(scope, *queueRecord) error) error {
	sc, name := parseURL(scopeOf(ctx), *url)
	err := queues.UpdateOne(ctx, s.store, sc.Key(name), func(q *queueRecord) error {
		if err := fn(sc, q); err != nil {
			return err
		}
		q.Modified = s.now()
		return nil
	})
	return store.NotFoundAs(err, errNoQueue())
}

// DeleteQueue deletes a queue and all its messages.
func (s *Service) DeleteQueue(ctx context.Context, in *awssqs.DeleteQueueInput) (*awssqs.DeleteQueueOutput, error) {
	rec, sc, err := s.find(ctx, in.QueueUrl)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		for _, t := range moveTasks.All(tx, sc.Below(rec.Name)) {
			moveTasks.Delete(tx, t.Key)
		}
		queues.Delete(tx, sc.Key(rec.Name))
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.cfg.Pause > 0 {
		s.deleted[sc.Key(rec.Name)] = s.now()
	}
	s.forget(rec.ID)
	dropped := s.bytes.Do(bytestore.Drop(sc.bucket(rec.ID)))
	s.mu.Unlock()
	return &awssqs.DeleteQueueOutput{}, dropped.Wait()
}

// PurgeQueue deletes all messages of a queue.
func (s *Service) PurgeQueue(ctx context.Context, in *awssqs.PurgeQueueInput) (*awssqs.PurgeQueueOutput, error) {
	rec, sc, err := s.find(ctx, in.QueueUrl)
	if err != nil {
		return nil, err
	}
	done, err := s.purge(sc, &rec)
	if err != nil {
		return nil, err
	}
	return &awssqs.PurgeQueueOutput{}, done.Wait()
}

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_TagQueue.html
func putTags(old, more map[string]string) (map[string]string, error) {
	rules := tagging.Rules{Most: 50, Reserved: func(string) error { return errReservedTag() }, TooMany: errManyTags}
	names := slices.Sorted(maps.Keys(more))
	return tagging.Put(rules, old, names, func(name string) (key, value *string) {
		v := more[name]
		return &name, &v
	})
}

// TagQueue sets tags.
func (s *Service) TagQueue(ctx context.Context, in *awssqs.TagQueueInput) (*awssqs.TagQueueOutput, error) {
	err := s.change(ctx, in.QueueUrl, func(_ scope, q *queueRecord) (err error) {
		q.Tags, err = putTags(q.Tags, in.Tags)
		return err
	})
	return &awssqs.TagQueueOutput{}, err
}

// UntagQueue removes tags.
func (s *Service) UntagQueue(ctx context.Context, in *awssqs.UntagQueueInput) (*awssqs.UntagQueueOutput, error) {
	err := s.change(ctx, in.QueueUrl, func(_ scope, q *queueRecord) error {
		q.Tags = maps.Clone(q.Tags)
		for _, k := range in.TagKeys {
			delete(q.Tags, k)
		}
		return nil
	})
	return &awssqs.UntagQueueOutput{}, err
}

// ListQueueTags returns a queue's tags.
func (s *Service) ListQueueTags(ctx context.Context, in *awssqs.ListQueueTagsInput) (*awssqs.ListQueueTagsOutput, error) {
	rec, _, err := s.find(ctx, in.QueueUrl)
	if err != nil || len(rec.Tags) == 0 {
		return &awssqs.ListQueueTagsOutput{}, err
	}
	return &awssqs.ListQueueTagsOutput{Tags: rec.Tags}, nil
}
