import { type ReactNode, useId } from 'react';

/** Section is a part of a page with its own heading. */
export function Section({ title, note, actions, children }: { title: string; note?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <div className="min-w-0 flex-1 basis-56">
          <h2 id={id} className="font-semibold">{title}</h2>
          {note && <p className="text-sm text-soft">{note}</p>}
        </div>
        {actions}
      </div>
      {children}
    </section>
  );
}

export function Rows({ label, children }: { label: string; children: ReactNode }) {
  return <ul aria-label={label} className="divide-y rounded-lg border bg-raised">{children}</ul>;
}

/** Row is an entry of a list: what it is, its states, a line below, and its actions. */
export function Row({ title, badges, note, actions, children }: {
  title: ReactNode; badges?: ReactNode; note?: ReactNode; actions?: ReactNode; children?: ReactNode;
}) {
  return (
    <li className="px-3 py-2">
      <div className="flex flex-wrap items-start gap-x-2 gap-y-1.5">
        <div className="min-w-0 flex-1 basis-44">
          <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
            <span className="min-w-0 font-medium break-words" dir="auto">{title}</span>{badges}
          </div>
          {note && <div className="text-sm break-words text-soft">{note}</div>}
        </div>
        {actions && <div className="flex shrink-0 flex-wrap items-center justify-end gap-1">{actions}</div>}
      </div>
      {children}
    </li>
  );
}

/** Facts are names with values. */
export function Facts({ items }: { items: (readonly [string, ReactNode] | undefined)[] }) {
  return (
    <dl className="divide-y rounded-lg border bg-raised text-sm">
      {items.map((item) => item && (
        <div key={item[0]} className="flex flex-wrap gap-x-4 px-3 py-2">
          <dt className="w-40 shrink-0 text-soft">{item[0]}</dt>
          <dd className="min-w-0 flex-1 basis-40 break-words" dir="auto">{item[1]}</dd>
        </div>
      ))}
    </dl>
  );
}
