package worker

import (
	"context"

	"go.temporal.io/sdk/interceptor"
)

// marked makes an interceptor that marks the context of every activity.
func marked(mark func(context.Context) context.Context) []interceptor.WorkerInterceptor {
	if mark == nil {
		return nil
	}

	return []interceptor.WorkerInterceptor{&marker{mark: mark}}
}

type marker struct {
	interceptor.WorkerInterceptorBase
	mark func(context.Context) context.Context
}

func (m *marker) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &markedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, m.mark}
}

type markedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	mark func(context.Context) context.Context
}

func (a *markedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	return a.Next.ExecuteActivity(a.mark(ctx), in)
}
