import type { Schemas } from '@everloop/sdk';
import { compact, cost, counted } from '../lib/format';
import { byDay, tokensOf } from '../lib/usage';
import { Bars } from './chart';

type Report = Schemas['UsageReport'];

/** UsageCharts shows the tokens and the cost of a report that is grouped by day and something else. */
export function UsageCharts({ report, series, by }: { report: Report; series: (item: Schemas['UsageItem']) => string; by: string }) {
  const { uncosted } = report.total;
  return (
    <>
      <div className="grid gap-3 md:grid-cols-2">
        <Bars title={`Tokens by ${by}`} {...byDay(report, series, tokensOf)} format={compact} />
        <Bars title={`Cost by ${by}`} {...byDay(report, series, (item) => item.cost_usd)} format={(value) => (value === 0 ? '$0' : cost(value))} />
      </div>
      <p className="mt-2 text-sm text-soft">
        {counted(report.total.calls, 'model call')}, {compact(report.total.input_tokens)} tokens in, {compact(report.total.output_tokens)} out
        {report.total.cache_read_tokens > 0 && `, ${compact(report.total.cache_read_tokens)} of the input from the cache`}.
        {uncosted.input_tokens + uncosted.output_tokens > 0 && ` ${compact(uncosted.input_tokens + uncosted.output_tokens)} tokens are of models without a price.`}
        {report.more && ' Only the first entries are shown.'}
      </p>
    </>
  );
}
