package worker

import (
	"context"
	"sync/atomic"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// counted makes an interceptor that counts the activities which are carried out.
func counted(active *atomic.Int64) []interceptor.WorkerInterceptor {
	if active == nil {
		return nil
	}

	return []interceptor.WorkerInterceptor{&counter{active: active}}
}

type counter struct {
	interceptor.WorkerInterceptorBase
	active *atomic.Int64
}

func (c *counter) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &countedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, c.active}
}

type countedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	active *atomic.Int64
}

func (c *countedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if !activity.GetInfo(ctx).IsLocalActivity {
		c.active.Add(1)
		defer c.active.Add(-1)
	}

	return c.Next.ExecuteActivity(ctx, in)
}
