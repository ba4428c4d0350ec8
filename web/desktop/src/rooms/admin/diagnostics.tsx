import { CircleAlert, CircleCheck, CircleDashed, Loader, Play, TriangleAlert } from 'lucide-react';
import { useCallback, useEffect, useRef, useState } from 'react';
import { duration } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { Button } from '../../ui/button';
import { Failure } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { type CheckView, withEvent } from './checks';

const marks = {
  ok: <CircleCheck size={16} className="text-good" aria-label={t('good')} />,
  warn: <TriangleAlert size={16} className="text-warn" aria-label={t('warning')} />,
  fail: <CircleAlert size={16} className="text-bad" aria-label={t('failed')} />,
  skipped: <CircleDashed size={16} className="text-soft" aria-label={t('left out')} />,
};

export function Diagnostics() {
  const [checks, setChecks] = useState<CheckView[]>([]);
  const [running, setRunning] = useState(false);
  const [error, setError] = useState<unknown>();
  const stop = useRef<AbortController>(undefined);

  const run = useCallback(async () => {
    stop.current?.abort();
    const abort = new AbortController();
    stop.current = abort;
    setChecks([]);
    setError(undefined);
    setRunning(true);
    try {
      for await (const event of api().runDiagnostics({ signal: abort.signal })) {
        if (abort.signal.aborted) return;
        setChecks((all) => withEvent(all, event));
        if (event.event === 'done') break;
      }
    } catch (failure) {
      if (!abort.signal.aborted) setError(failure);
    }
    if (!abort.signal.aborted) setRunning(false);
  }, []);
  useEffect(() => {
    void run();
    return () => stop.current?.abort();
  }, [run]);

  const count = (status: string) => checks.filter((one) => one.result?.status === status).length;
  return (
    <Section
      title={t('Diagnostics')}
      note={t('Checks each dependency of the service.')}
      actions={
        <Button busy={running} onClick={() => void run()}>
          <Play size={15} aria-hidden />
          {t('Check again')}
        </Button>
      }
    >
      <p role="status" className="mb-2 text-sm text-soft">
        {running
          ? t('Checking…')
          : checks.length > 0 &&
            t('Good: {good}. With a warning: {warnings}. Failed: {failed}.', {
              good: count('ok'),
              warnings: count('warn'),
              failed: count('fail'),
            })}
      </p>
      {error !== undefined && (
        <div className="mb-3">
          <Failure error={error} retry={() => void run()} />
        </div>
      )}
      {checks.length > 0 && (
        <Rows label={t('Checks')}>
          {checks.map(({ id, title, result }) => (
            <Row
              key={id}
              title={title}
              badges={result ? marks[result.status] : <Loader size={16} className="animate-spin text-accent" aria-label={t('running')} />}
              note={
                result && (
                  <>
                    {result.message}
                    {result.hint && <span className="block text-ink">{result.hint}</span>}
                  </>
                )
              }
              actions={result && <span className="text-xs text-soft tabular-nums">{duration(result.duration_ms)}</span>}
            />
          ))}
        </Rows>
      )}
    </Section>
  );
}
