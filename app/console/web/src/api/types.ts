// The answers of the admin API by their names in its OpenAPI document: a change there breaks the build here.
import type { components, paths } from "./schema";

export type Paths = paths;
type Schemas = components["schemas"];

export type Scope = Schemas["SessionView"]["scopes"][number];

export type SubscriptionHealth = Schemas["SubscriptionView"];
export type Status = Schemas["Status"];
export type Attention = Schemas["Attention"];
export type ListedSubscription = Schemas["Listed"];
export type Standing = Schemas["Standing"];
export type RouteView = Schemas["RouteView"];
export type Attempt = Schemas["AttemptView"];
export type ParkedKey = Schemas["ParkedKeyView"];
export type DeadLetter = Schemas["DeadLetterView"];
export type Replay = Schemas["ReplayView"];
export type SubscriptionHistory = Schemas["SubscriptionHistory"];
export type ReplayPlan = Schemas["ReplayPlan"];
export type TestAnswer = Schemas["TestAnswer"];
export type RetryAnswer = Schemas["RetryAnswer"];
export type Remark = Schemas["RemarkView"];
export type Topic = Schemas["TopicView"];
export type Message = Schemas["MessageView"];
export type EventName = Schemas["EventView"];
export type FoundEvent = Schemas["EventFoundView"];
export type Found = Schemas["FoundView"];
export type Fate = Schemas["FateView"];
export type Wire = Schemas["WireView"];
export type DeadLetterDetail = Schemas["DeadLetterDetail"];
export type DeadLetterCounts = Schemas["DeadLetterCounts"];
export type CauseCount = Schemas["CauseCount"];
export type Redriven = Schemas["Redriven"];
export type Parked = Schemas["ParkedView"];
export type Journey = Schemas["JourneyView"];
export type Hop = Schemas["HopView"];
export type Filter = Schemas["FilterView"];
export type Verdict = Schemas["SubscriptionVerdictView"];
export type RouteVerdict = Schemas["RouteVerdictView"];
export type AuditEntry = Schemas["AuditEntryView"];
export type Plan = Schemas["PlanView"];
export type Reload = Schemas["ReloadView"];
export type Configuration = Schemas["ConfigurationView"];
export type Problem = Schemas["Problem"];

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export type Session = Schemas["SessionView"];
export type History = Schemas["History"];
/** Rates are events a second, latencies milliseconds, `at` seconds since the epoch. */
export type Point = Schemas["Point"];
