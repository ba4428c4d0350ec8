import { EverloopError, type Api } from '@everloop/sdk';
import { type Query, QueryCache, QueryClient, type QueryKey, useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { t } from './i18n';
import { toast } from '../ui/toast';
import { account, signOut } from './auth';

/** api has every operation of the service, as the person who is signed in. */
export const api = (): Api => account().client.api;

/** errorText says what went wrong, for people. */
export function errorText(error: unknown): string {
  if (!(error instanceof EverloopError)) return error instanceof Error ? error.message : String(error);
  const text = error.message.charAt(0).toUpperCase() + error.message.slice(1);
  return error.code === 'network_error' ? t('The service cannot be reached. Check the connection and try again.') : text;
}

function ended(error: unknown): void {
  if (error instanceof EverloopError && error.status === 401) void signOut(t('Your session has expired. Sign in again.'));
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: ended }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (count, error) => error instanceof EverloopError && error.retryable && count < 3,
    },
  },
});

const repeats = new WeakMap<Query, Promise<void>>(); // of first fetches that are under way

// repeat reads a query again when its first fetch has succeeded; one that failed is outdated without it.
function repeat(client: QueryClient, query: Query): Promise<void> {
  const again = repeats.get(query) ?? Promise.resolve(query.promise).then(() => {
    repeats.delete(query);
    return client.invalidateQueries({ queryKey: query.queryKey, exact: true });
  }, () => void repeats.delete(query));
  repeats.set(query, again);
  return again;
}

/**
 * invalidate makes the queries whose keys begin with `queryKey` outdated, and reads those that are shown again. The query client
 * keeps a first fetch that is under way, and takes its answer as new, though it may be older than the change: it is repeated.
 */
export async function invalidate(client: QueryClient, queryKey: QueryKey): Promise<void> {
  const first = client.getQueryCache().findAll({ queryKey, fetchStatus: 'fetching', predicate: ({ state }) => state.data === undefined });
  await Promise.all([client.invalidateQueries({ queryKey }), ...first.map((query) => repeat(client, query))]);
}

/** Page is a part of a list that grows. */
export interface Page<Item> {
  items: Item[];
  total: number;
}

/** usePages reads a list by `offset` and `limit`, page after page. `items` are those of all pages so far. */
export function usePages<Item>(
  key: readonly unknown[], read: (query: { offset: number; limit: number }, signal: AbortSignal) => Promise<Page<Item>>, limit = 50,
) {
  const result = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => read({ offset: pageParam, limit }, signal),
    initialPageParam: 0,
    getNextPageParam: (last, all) => {
      const seen = all.reduce((count, page) => count + page.items.length, 0);
      return last.items.length > 0 && seen < last.total ? seen : undefined;
    },
  });
  return { ...result, items: result.data?.pages.flatMap((page) => page.items), total: result.data?.pages[0]?.total ?? 0 };
}

/**
 * useAction makes a change. Failures are shown as a toast, `done` is shown when it worked, and the queries whose keys begin
 * with one of `refresh` are read again.
 */
export function useAction<Input = void, Output = unknown>(
  act: (input: Input) => Promise<Output>,
  options: { done?: string | ((output: Output, input: Input) => string | undefined); refresh?: readonly QueryKey[] } = {},
) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: async (output, input) => {
      const text = typeof options.done === 'function' ? options.done(output, input) : options.done;
      if (text) toast(text);
      await Promise.all((options.refresh ?? []).map((key) => invalidate(client, key)));
    },
    onError: (error) => {
      ended(error);
      toast(errorText(error), 'bad');
    },
  });
}
