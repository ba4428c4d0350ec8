import type { Schemas } from '@everloop/sdk';
import { compact, cost } from '../lib/format';
import { plural, t } from '../lib/i18n';
import { byDay, tokensOf } from '../lib/usage';
import { Bars } from './chart';

type Report = Schemas['UsageReport'];

/** UsageCharts shows the tokens and the cost of a report that is grouped by day and something else. */
export function UsageCharts({
  report,
  series,
  titles,
}: {
  report: Report;
  series: (item: Schemas['UsageItem']) => string;
  titles: { tokens: string; cost: string };
}) {
  const unpriced = report.total.uncosted.input_tokens + report.total.uncosted.output_tokens;
  return (
    <>
      <div className="grid gap-3 md:grid-cols-2">
        <Bars title={titles.tokens} {...byDay(report, series, tokensOf)} format={compact} />
        <Bars title={titles.cost} {...byDay(report, series, (item) => item.cost_usd)} format={(value) => cost(value)} />
      </div>
      <p className="mt-2 text-sm text-soft">
        {[
          plural(report.total.calls, '{count} model call', '{count} model calls'),
          t('{input} tokens in, {output} out', { input: compact(report.total.input_tokens), output: compact(report.total.output_tokens) }),
          report.total.cache_read_tokens > 0 &&
            t('{tokens} of the input from the cache', { tokens: compact(report.total.cache_read_tokens) }),
        ]
          .filter(Boolean)
          .join(', ')}
        .{unpriced > 0 && ` ${t('{tokens} tokens belong to models without a price.', { tokens: compact(unpriced) })}`}
        {report.more && ` ${t('The list is truncated.')}`}
      </p>
    </>
  );
}
